// A46: what an interpreter does to itself.
const isInside = process.cwd() === '/workspace' && process.getuid() === 1000;
if (process.env.COVE_HOSTILE !== '1' || !isInside) {
    console.error('hostile probe: this is not a sandbox, refusing to run');
    process.exit(99);
}
const modes = {
    recursion() {
        const down = (n) => down(n + 1) + 1;
        down(0);
    },
    regex() {
        /^(a+)+$/.test('a'.repeat(64) + 'b');
    },
    heap() {
        const held = [];
        for (;;) held.push(new Array(1e5).fill({}).map((x, i) => ({ i })));
    },
    buffer() {
        const held = [];
        for (;;) held.push(Buffer.alloc(1 << 24, 1));
    },
    string() {
        let text = 'x'.repeat(1 << 28);
        console.log(text.length, text + text);
    },
    error() {
        throw new Error('m'.repeat(50_000_000));
    },
    reject() {
        for (let i = 0; i < 1e6; i++) Promise.reject(new Error(String(i)));
    },
    tick() {
        const again = () => process.nextTick(again);
        again();
    },
};
console.log('ready ok');
modes[process.argv[process.argv.length - 1]]();

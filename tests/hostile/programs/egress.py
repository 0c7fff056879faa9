"""D106 D107 D108 D111 D115: everything but an honest request, said to the proxy; and far too many of them.

The policy names the loopback and private addresses on purpose: being named makes them no more public."""
import os
import socket

from guard import attempt, fact, finish

PROXY = ("127.0.0.1", 808)
port = int(os.environ["HOSTILE_PORT"])
own = os.environ["HOSTILE_ADDRESS"]
HOSTS = ["127.0.0.1", "127.0.0.2", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "0.0.0.0", "0", "localhost", "LOCALHOST", "localhost.",
         "localhost..", "ip6-localhost", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]",
         "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::1%25lo]", "[fe80::1]", own, f"[::ffff:{own}]", f"user@{own}", f"user:word@{own}", f"{own}.",
         f"{own}%00.example.com", f"{own}%2eexample.com", "127.0.0.1#.example.com", "127.0.0.1\\.example.com", "127。0。0。1", "①27.0.0.1",
         "169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal", "100.100.100.200", "168.63.129.16", "10.0.0.1", "172.17.0.1",
         "192.168.0.1", "100.64.0.1", "224.0.0.1", "255.255.255.255", "host.docker.internal", "evil.example"]


def ask(data, ends=True):
    """The first line that comes back, or that the connection was closed."""
    with socket.create_connection(PROXY, 20) as link:
        try:
            link.sendall(data)
            if ends:
                link.shutdown(socket.SHUT_WR)
            line = link.makefile("rb").readline(200)
        except (ConnectionResetError, BrokenPipeError):
            return "closed"
        return "_".join(line.decode("latin-1").split()[:2]) or "closed"


def said(name, *args):
    try:
        fact(name, ask(*args))
    except OSError as error:
        fact(name, type(error).__name__)


for host in HOSTS:
    for number in (port, 80):
        where = f"{host}:{number}".encode()
        said(f"get:{host}:{number}", b"GET http://" + where + b"/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
        said(f"connect:{host}:{number}", b"CONNECT " + where + b" HTTP/1.1\r\nHost: example.com\r\n\r\n")

inner = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port
packed = socket.inet_aton("127.0.0.1")
for name, data in {
    "socks4": b"\x04\x01" + port.to_bytes(2, "big") + packed + b"\0",
    "socks5": b"\x05\x01\x00" + b"\x05\x01\x00\x01" + packed + port.to_bytes(2, "big"),
    "proxy-protocol": b"PROXY TCP4 127.0.0.1 127.0.0.1 1 %d\r\n" % port + inner,
    "tls": bytes.fromhex("16030100050100000100"),
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "http0.9": b"GET http://127.0.0.1:%d/\r\n" % port,
    "origin-form": inner,
    "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port,
    "connect-udp": b"GET http://example.com/.well-known/masque/udp/8.8.8.8/53/ HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n\r\n",
    "upgrade": b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n" % port,
    "other-scheme": b"GET ftp://127.0.0.1:%d/ HTTP/1.1\r\nHost: x\r\n\r\n" % port,
    "file": b"GET file:///etc/hostname HTTP/1.1\r\nHost: x\r\n\r\n",
    "two-lengths": b"POST http://127.0.0.1:%d/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 90\r\n\r\nx" % port + inner,
    "length-and-chunks": b"POST http://example.com/ HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
    "bare-line-feeds": b"GET http://127.0.0.1:%d/ HTTP/1.1\nHost: x\n\n" % port,
    "nul": b"GET http://127.0.0.1:%d/\0 HTTP/1.1\r\n\r\n" % port,
    "folded": b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nA: b\r\n Host: c\r\n\r\n" % port,
    "long-line": b"GET http://127.0.0.1:%d/" % port + b"a" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
    "long-name": b"CONNECT " + b"a." * 5000 + b"example:443 HTTP/1.1\r\n\r\n",
    "many-headers": b"GET http://127.0.0.1:%d/ HTTP/1.1\r\n" % port + b"a: b\r\n" * 50000 + b"\r\n",
    "half-a-line": b"GET http://127.0.0.1",
    "nothing": b"",
}.items():
    said(f"raw:{name}", data)

# Held open to the end, some with half a request: whoever waits for their rest waits in vain.
held = []
for i in range(600):
    try:
        link = socket.socket()
        link.setblocking(False)
        link.connect_ex(PROXY)
        held.append(link)
        if i % 2:
            link.send(b"GET http://")
    except OSError:
        continue
fact("held", len(held))
attempt("control.loopback", lambda: socket.create_server(("127.0.0.1", 0)).close())
finish()

# What every shell probe begins with: refuse to run on a host.
if [ "${COVE_HOSTILE:-}" != 1 ] || [ "$(uname -n)" != cove ] || [ "$(id -u)" != 1000 ] ||
    [ "$PWD" != /workspace ] || [ -e /sys/kernel ]; then
    echo 'hostile probe: this is not a sandbox, refusing to run' >&2
    exit 99
fi

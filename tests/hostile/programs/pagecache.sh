# A12: far more file data than memory, written over and over and read again, within the disk limit.
. ./guard.sh
for round in $(seq 1 55); do
    head -c 12M /dev/zero > big-$((round % 2)) || exit 1
    cat big-* > /dev/null
done
echo "done 0"

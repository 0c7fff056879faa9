# A12: far more file data than memory, written and read again, within the disk limit.
. ./guard.sh
for round in 1 2 3 4 5 6 7 8; do
    head -c 50M /dev/zero > big-$((round % 2)) || exit 1
    cat big-* > /dev/null
done
echo "done 0"

# C90 for a shell: names and values, one a line.
. ./guard.sh
count=0
while IFS= read -r -d '' pair; do
    echo "env.${pair%%=*} =${pair#*=}"
    count=$((count + 1))
done < <(env -0)
while IFS= read -r -d '' pair; do
    echo "kernel.${pair%%=*} =${pair#*=}"
    count=$((count + 1))
done < /proc/self/environ
echo "done $count"

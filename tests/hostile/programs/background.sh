# A30: processes that keep the output open after the program has ended.
. ./guard.sh
sleep 1000 &
(trap '' TERM HUP INT; setsid sleep 1001 &)
(while :; do sleep 0.2 && echo straggler; done &)
echo "done 0"
exit "${1:-0}"

#!/bin/sh
# Ends every process that runs in a folder, and removes the folder.
#
#   keep.sh <folder>                   once standard input ends, which its starter holds open
#   keep.sh <folder> <lock> <pointer>  once nobody has held the lock for 20 seconds; a pointer
#                                      that still names the folder is removed first
#
# Only processes whose working folder it is, or `data` in it, are ended: nobody else runs there.
set -u
trap '' HUP INT TERM
cd /
folder=$1

unused() { flock --exclusive --nonblock "$1" true; }

# Under the lock, so that who takes it next sees either a living server or none.
forget() {
    flock --exclusive --nonblock "$1" sh -c '! grep -qF "$1" "$2" || rm -f "$2"' - "$folder" "$2"
}

if [ $# = 1 ]; then
    cat >/dev/null
else
    idle=0
    until [ "$idle" -ge 20 ] && forget "$2" "$3"; do
        sleep 1
        if unused "$2"; then idle=$((idle + 1)); else idle=0; fi
    done
fi

end_all() {
    found=1
    for process in /proc/[0-9]*; do
        if [ "$process/cwd" -ef "$folder" ] || [ "$process/cwd" -ef "$folder/data" ]; then
            kill -9 "${process#/proc/}" 2>/dev/null
            found=0
        fi
    done
    return "$found"
}
# PostgreSQL gives its shared memory back only when it may end by itself.
quit() {
    read -r server <"$folder/data/postmaster.pid" || return 0
    [ "/proc/$server/cwd" -ef "$folder/data" ] || return 0
    kill -QUIT "$server"
    kill -CONT "$server"
    tries=0
    while [ -d "/proc/$server" ] && [ "$tries" -lt 100 ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
} 2>/dev/null
quit
while end_all; do sleep 0.01; done
rm -rf "$folder"

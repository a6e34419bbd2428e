#!/bin/bash
# hosts.sh COUNT RATE FOLDER COMMAND…: runs a command on the first of COUNT hosts h0, h1, … that share a switch.
#
# Hosts are network namespaces with their own name, /dev/shm and /etc/hosts, each linked to a bridge by a veth pair with
# both ends limited to RATE. HOPBYTE_SLOW="h2 out 10mbit;h1 in 5mbit" makes directions slower. FOLDER gets `agent` (the
# launcher's replacement for ssh) and `hosts`. All namespaces belong to this script and end with it. Needs root.
set -e
if [ "${HOPBYTE_HOSTS_INSIDE:-}" != 1 ]; then
    HOPBYTE_HOSTS_INSIDE=1 exec unshare --net --mount --propagation private -- "$0" "$@"
fi
count=$1 rate=$2 folder=$3
shift 3
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
ip link set lo up
ip link add switch type bridge
ip link set switch up
echo "127.0.0.1 localhost" >"$folder/etc-hosts"
: >"$folder/hosts"
for ((i = 0; i < count; i++)); do
    ip netns add h$i
    ip link add port$i type veth peer name eth0 netns h$i
    ip link set port$i master switch up
    ip -n h$i addr add 10.66.0.$((i + 1))/24 dev eth0
    ip -n h$i link set eth0 up
    ip -n h$i link set lo up
    ip netns exec h$i tc qdisc replace dev eth0 root tbf rate "$rate" burst 32k latency 50ms
    tc qdisc replace dev port$i root tbf rate "$rate" burst 32k latency 50ms
    echo "10.66.0.$((i + 1)) h$i" >>"$folder/etc-hosts"
    echo "h$i" >>"$folder/hosts"
done
while read -r host way slow; do
    [ -n "$host" ] || continue
    if [ "$way" = out ]; then
        ip netns exec "$host" tc qdisc replace dev eth0 root tbf rate "$slow" burst 32k latency 50ms
    else
        tc qdisc replace dev "port${host#h}" root tbf rate "$slow" burst 32k latency 50ms
    fi
done <<<"${HOPBYTE_SLOW//;/$'\n'}"
cat >"$folder/agent" <<END
#!/bin/bash
while [[ "\$1" == -* ]]; do shift; done
host=\$1
shift
exec ip netns exec "\$host" unshare --uts --mount --ipc --propagation private -- bash -c \
    'hostname "\$0"; mount --bind "$folder/etc-hosts" /etc/hosts; mount -t tmpfs tmpfs /dev/shm; exec bash -c "\$*"' \
    "\$host" "\$@"
END
chmod +x "$folder/agent"
# Not exec: the switch lives only as long as a process of this namespace.
"$folder/agent" h0 "$@" </dev/null

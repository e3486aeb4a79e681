#!/bin/sh
# The TLS side of a task's pod: writes stunnel's configuration for this cluster and becomes stunnel.
#
# What other pods say comes in on port 2443 and goes on to this pod's task, on port 2222. What this
# pod's task says to worker N at 127.0.1.N:2223, or to parameter server N at 127.0.2.N:2223, goes
# out to port 2443 of that pod. Both sides show a certificate of one authority with the name ps-dqn.
set -eu

service() { # name, own address, the other's address
    printf '[%s]\nclient = yes\naccept = %s\nconnect = %s\n' "$1" "$2" "$3"
}

# The pods of a StatefulSet: its name, how many, our network.
services() {
    if [ "$2" -gt 256 ]; then
        echo "error: $1: $2 pods; with TLS there may be 256 of a role" >&2
        exit 2
    fi
    index=0
    while [ "$index" -lt "$2" ]; do
        service "$1-$index" "$3.$index:2223" "$1-$index.$1:2443"
        index=$((index + 1))
    done
}

# A node that vanishes hangs up on nobody: asked after 3 s of silence and every 2 s, four times in
# vain, an idle connection to it has ended, as the task's own do.
keepalive() { # l: who has called, r: whom we call
    printf 'socket = %s:%s\n' "$1" SO_KEEPALIVE=1 "$1" TCP_KEEPIDLE=3 \
        "$1" TCP_KEEPINTVL=2 "$1" TCP_KEEPCNT=4
}

workers=$(services "$WORKER" "$NUM_WORKERS" 127.0.1)
servers=$(services "$PARAMETER_SERVER" "$NUM_PS" 127.0.2)

# delay: a pod that is back has another address, so its name is looked up for each connection.
exec stunnel -fd 3 3<<END
foreground = yes
pid =
syslog = no
debug = warning
sslVersionMin = TLSv1.3
cert = /etc/ps-dqn-tls/tls.crt
key = /etc/ps-dqn-tls/tls.key
CAfile = /etc/ps-dqn-tls/ca.crt
requireCert = yes
verifyChain = yes
checkHost = ps-dqn
delay = yes
TIMEOUTconnect = 5
TIMEOUTclose = 0
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
$(keepalive l)
$(keepalive r)
[task]
client = no
accept = 0.0.0.0:2443
connect = 127.0.0.1:2222
$workers
$servers
END

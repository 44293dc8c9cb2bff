#!/bin/sh
for command; do :; done
export HOME={home} SSH_CONNECTION='198.18.0.1 1 198.18.0.2 22' PATH=/usr/bin:/bin
unset XDG_CACHE_HOME
exec sh -c "$command"

grep -c xprt: /proc/self/mountstats

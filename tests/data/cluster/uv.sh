#!/bin/sh
case $2 in install) touch "$HOME/python" ;; *) [ -e "$HOME/python" ] && echo {python} ;; esac

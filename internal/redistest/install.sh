#!/bin/sh
# Makes sure that there is a redis-server for the tests to start.
set -eu

if command -v redis-server >/dev/null 2>&1; then
	exit 0
fi
if command -v apt-get >/dev/null 2>&1; then
	sudo=""
	if [ "$(id -u)" != 0 ]; then
		sudo="sudo"
	fi
	export DEBIAN_FRONTEND=noninteractive
	$sudo apt-get update -qq >/dev/null
	# Only the program is wanted, not a service that listens on the standard port.
	$sudo env RUNLEVEL=1 apt-get install -y -qq redis-server >/dev/null
elif command -v brew >/dev/null 2>&1; then
	brew install redis
fi
command -v redis-server >/dev/null 2>&1 || {
	echo "redis-server is not installed, and could not be: please install Redis 6.2 or later" >&2
	exit 1
}

"""A process that opens a consumer, reports it, and holds it until it is killed."""

import sys

import strandline as sl

if __name__ == "__main__":
    url, name, *partitions = sys.argv[1:]
    log = sl.open(url, mode="consume")
    held = log.consumer("orders", name, partitions=[int(each) for each in partitions] or None)
    sys.stdout.write("held\n")
    sys.stdout.flush()
    sys.stdin.read()

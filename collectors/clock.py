"""How well this node's clock agrees with others."""

NAME = "clock"
TITLE = "Clock"
NEEDS = ()
SECONDS = 8


def collect(run):
    """The services that keep time; the launcher also compares the clock with its own."""
    run.command(["date", "-u", "+%Y-%m-%dT%H:%M:%S.%NZ"], "date.txt", seconds=2)
    run.command(["chronyc", "-n", "tracking"], seconds=3)
    run.command(["ntpq", "-pn"], seconds=3)
    run.command(["timedatectl", "show"], seconds=3)
    run.file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "clocksource.txt")

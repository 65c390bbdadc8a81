"""The command line: arguments only, one call for each command."""

from __future__ import annotations

import argparse
import json
import sys

from autograder.course import find_course


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="autograder")
    commands = parser.add_subparsers(dest="command", required=True)
    verify = commands.add_parser("verify", help="prove the course")
    verify.add_argument("--topic")
    verify.add_argument("--json", action="store_true")
    verify.add_argument("--secrets", type=int, default=5)
    options = parser.parse_args(arguments)
    from autograder.bench import Bench
    from autograder.verify import SECRETS, verify_slips, verify_variants

    course = find_course()
    for topic in [course.topic(options.topic)] if options.topic else course.topics():
        bench = Bench.of(topic)
        secrets = SECRETS[: options.secrets]
        ok = bench.run_reference(secrets[0])
        print(json.dumps({"topic": topic.key, "points": sum(i.points for i in bench.items), "solution": ok}, indent=1))
        print(json.dumps({"slips": verify_slips(bench, secrets), "variants": verify_variants(bench, secrets)}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

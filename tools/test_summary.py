#!/usr/bin/env python3
"""Reads what `bazel test` did from its build events and prints `N passed, N failed` as the last line.

usage: test_summary.py EVENTS.json BAZEL_EXIT_STATUS

A Catch2 binary counts with each of its test cases, any other test as one. A test that dies, times out or
writes no result, and a target that does not build, counts as one failure. Exits 0 only if something passed,
nothing failed and Bazel itself said success.
"""

import json
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree


def read_events(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def count_cases(result):
    """(passed, names of failed cases) of one testResult event."""
    passed, failed = 0, []
    for output in result.get("testActionOutput", []):
        if output.get("name") != "test.xml":
            continue
        path = urllib.request.url2pathname(urllib.parse.urlparse(output["uri"]).path)
        try:
            cases = xml.etree.ElementTree.parse(path).getroot().iter("testcase")
        except (OSError, xml.etree.ElementTree.ParseError):
            continue
        for case in cases:
            if case.find("failure") is not None or case.find("error") is not None:
                failed.append(case.get("name", "?"))
            elif case.find("skipped") is None:
                passed += 1
    ok = result.get("status") in ("PASSED", "FLAKY")
    if not ok and not failed:
        failed.append("%s: %s" % (result.get("status", "NO_STATUS"), result.get("statusDetails", "")))
    if ok and not failed and passed == 0:
        failed.append("no test case ran")
    return passed, failed


def main():
    results = {}  # (label, run, shard) -> (passed, failed); a later attempt replaces an earlier one
    broken = set()  # labels that did not build
    for event in read_events(sys.argv[1]):
        identifier = event.get("id", {})
        if "testResult" in event:
            key = identifier["testResult"]
            results[(key["label"], key.get("run", 1), key.get("shard", 1))] = count_cases(event["testResult"])
        elif "targetCompleted" in identifier:
            if "aborted" in event or not event.get("completed", {}).get("success", False):
                broken.add(identifier["targetCompleted"]["label"])
        elif "targetConfigured" in identifier and "aborted" in event:
            broken.add(identifier["targetConfigured"]["label"])
    passed = sum(p for p, _ in results.values())
    failed = 0
    for (label, _, _), (_, names) in sorted(results.items()):
        broken.discard(label)
        failed += len(names)
        for name in names:
            print("FAILED %s: %s" % (label, name))
    for label in sorted(broken):
        failed += 1
        print("FAILED TO BUILD %s" % label)
    if failed == 0 and (int(sys.argv[2]) != 0 or passed == 0):
        print("FAILED bazel test: exit status %s" % sys.argv[2])
        failed = 1
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

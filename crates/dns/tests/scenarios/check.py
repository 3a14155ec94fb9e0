"""Asks a server everything in the scenario files, with dnspython, over UDP and TCP.

check.py PORT FILE...: prints what differs and ends with 1, or prints how many questions were right.
"""

import sys

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype


def read(path):
    cases = []
    for line in open(path):
        line = line.rstrip("\n")
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith("  "):
            name, kind = line.split()
            cases.append([name, kind, None, None, set(), set()])
        elif cases[-1][2] is None:
            words = line.split() + [None]
            cases[-1][2], cases[-1][3] = words[0], words[1]
        elif line.startswith("  + "):
            cases[-1][5].add(line[4:])
        else:
            cases[-1][4].add(line[2:])
    return cases


def words(section):
    return {
        f"{rrset.name.to_text()} {rrset.ttl} {dns.rdatatype.to_text(rrset.rdtype)} {rdata.to_text()}"
        for rrset in section
        for rdata in rrset
    }


def check(case, port, ask):
    name, kind, status, zone, answer, additional = case
    query = dns.message.make_query(name, kind, use_edns=0, payload=1232)
    reply = ask(query, "127.0.0.1", port=port, timeout=10)
    got = dns.rcode.to_text(reply.rcode())
    if got == "NOERROR" and not reply.answer:
        got = "NODATA"
    problems = []
    if got != status:
        problems.append(f"status {got}, expected {status}")
    if reply.question[0].name.to_text() != query.question[0].name.to_text():
        problems.append("the case of the question was lost")
    if status in ("NOERROR", "NODATA", "NXDOMAIN") and not reply.flags & dns.flags.AA:
        problems.append("no authority")
    soa = [rrset.name.to_text() for rrset in reply.authority]
    if soa != ([zone] if zone else []):
        problems.append(f"authority {soa}, expected {zone}")
    if status not in ("SERVFAIL", "REFUSED"):
        for section, expected in ((words(reply.answer), answer), (words(reply.additional), additional)):
            if section != expected:
                problems.append(f"got {sorted(section)}, expected {sorted(expected)}")
    return [f"{name} {kind}: {problem}" for problem in problems]


def main():
    port, problems, count = int(sys.argv[1]), [], 0
    for path in sys.argv[2:]:
        for case in read(path):
            for ask in (dns.query.udp, dns.query.tcp):
                problems += check(case, port, ask)
                count += 1
    print("\n".join(problems) or f"{count} right")
    sys.exit(1 if problems else 0)


main()

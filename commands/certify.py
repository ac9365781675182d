"""`certify`: prove the calibrated levels anew and print the worst error of each certificate."""

import argparse
import sys

from screening.stopping.certificates import CERTIFICATES, Certificate, WorstErrors, calibrate
from screening.stopping.rules import Contract


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("certify", help="prove the certificates anew, or find the levels of another")
    parser.add_argument("--up-to", type=int, default=300, metavar="BUDGET", help="leave out those of larger budgets")
    parser.add_argument("--calibrate", type=float, default=None, metavar="DELTA", help="find the levels for this δ")
    parser.add_argument("--budget", type=int, default=100, help="with --calibrate: most draws")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """1 if a certificate does not hold or says less than the worst error proven now."""
    if arguments.calibrate is not None:
        found = calibrate(Contract(any_wrong=arguments.calibrate), arguments.budget)
        print(f"level {found.level:g}: {_words(found, found.recompute())}")
        return 0
    failed = 0
    for certificate in (each for each in CERTIFICATES if each.budget <= arguments.up_to):
        errors = certificate.recompute()
        holds = errors.keep(certificate.contract) and errors.any_wrong.bound <= certificate.worst
        failed += not holds
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {_words(certificate, errors)}", flush=True)
    if failed:
        print(f"{failed} certificates do not hold", file=sys.stderr)
    return 1 if failed else 0


def _words(certificate: Certificate, errors: WorstErrors) -> str:
    pairs = dict(errors.pairs)
    worst_pairs = [f"{said} for {mode} {pairs[said, mode].bound:.6f}" for (said, mode), _ in certificate.contract.pairs]
    worst = ", ".join([f"any wrong label {errors.any_wrong.bound:.6f}", *worst_pairs])
    return f"up to {certificate.budget} calls, {certificate.contract.words()}. Worst: {worst}"

"""Corrected labels keep everything beside the accepted label; reviews as tables for agreement; a batch's ledger. What
an audit may count: only blind first reviews of cases drawn at random or escalated. What research pages keep is kept
only while nothing that it follows from has changed. A batch in columns of numbers is what it is case by case; the cases
behind a number: every filter, tag and remark, the gap, and what is kept from who has yet to read.
"""

"""Evidence levels calibrated for a budget, with a proof that the worst error over all label mixes keeps a contract."""

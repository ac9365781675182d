"""The calibrated levels as `python -m screening certify --calibrate` found them, each with its proven worst errors.

Rows are added, never changed: configurations name them by all their numbers. `make certify` proves every one anew.
"""

Row = tuple[float, str, int, float, float, float, float]
"""Bound of any wrong label, kind of contract, budget, evidence level, level for saying safe (0 where it has none of its
own), proven worst probability of any wrong label, and of saying safe where it is not the mode (both rounded up)."""

ROWS: tuple[Row, ...] = (
    (0.05, "default", 100, 0.0903, 0.00177, 0.049080, 0.000904),
    (0.2, "any", 100, 0.313, 0, 0.170865, 0.170865),
    (0.1, "any", 100, 0.169, 0, 0.091093, 0.091093),
    (0.05, "any", 100, 0.0903, 0, 0.049062, 0.049062),
    (0.02, "any", 100, 0.0249, 0, 0.013639, 0.013639),
    (0.01, "any", 100, 0.0129, 0, 0.007069, 0.007069),
    (0.005, "any", 100, 0.00669, 0, 0.003679, 0.003679),
    (0.001, "any", 100, 0.00177, 0, 0.000904, 0.000904),
    (0.05, "default", 150, 0.0889, 0.00177, 0.049809, 0.000946),
    (0.2, "any", 150, 0.313, 0, 0.173635, 0.173635),
    (0.1, "any", 150, 0.169, 0, 0.093200, 0.093200),
    (0.05, "any", 150, 0.0889, 0, 0.049779, 0.049779),
    (0.02, "any", 150, 0.0249, 0, 0.014095, 0.014095),
    (0.01, "any", 150, 0.0129, 0, 0.007328, 0.007328),
    (0.005, "any", 150, 0.00669, 0, 0.003816, 0.003816),
    (0.001, "any", 150, 0.00177, 0, 0.000946, 0.000946),
    (0.05, "default", 300, 0.0795, 0.00175, 0.049562, 0.000997),
    (0.2, "any", 300, 0.313, 0, 0.177423, 0.177423),
    (0.1, "any", 300, 0.169, 0, 0.095894, 0.095894),
    (0.05, "any", 300, 0.0795, 0, 0.049513, 0.049513),
    (0.02, "any", 300, 0.0249, 0, 0.014699, 0.014699),
    (0.01, "any", 300, 0.0129, 0, 0.007665, 0.007665),
    (0.005, "any", 300, 0.00669, 0, 0.004003, 0.004003),
    (0.001, "any", 300, 0.00175, 0, 0.000998, 0.000998),
)

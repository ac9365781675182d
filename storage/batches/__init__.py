"""What comes in and is screened."""

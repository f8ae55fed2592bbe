"""What happens to jobs, told to the receivers that ask for it."""

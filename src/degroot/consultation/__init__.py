"""A question, from opinions to an answer."""

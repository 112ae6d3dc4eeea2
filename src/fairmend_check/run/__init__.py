"""The run of a model in the program that people run it with, which can only take VALID away."""

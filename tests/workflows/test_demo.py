"""The applicants of the demo have a known bias, and the network learns it."""

from fairmend.workflows.demo import loan_applicants, loan_spec, train_network


def test_the_population_is_seeded_and_fits_its_spec():
    spec, frame = loan_spec(), loan_applicants(500, seed=4)
    assert frame.equals(loan_applicants(500, seed=4))
    assert not frame.equals(loan_applicants(500, seed=5))
    X = spec.encode(frame)
    assert spec.decode(X)["gender"].tolist() == frame["gender"].tolist()
    assert {f.kind for f in spec.features} == {"integer", "continuous", "categorical"}
    assert [f.name for f in spec.protected] == ["age", "gender"]


def test_the_population_has_the_bias_it_is_said_to_have():
    frame = loan_applicants(20_000)
    approved = frame["approved"] == "yes"
    assert 0.5 < approved.mean() < 0.7
    women, men = (approved[frame["gender"] == gender].mean() for gender in ("female", "male"))
    assert men - women > 0.05
    alike = frame["years_employed"].between(3, 7)  # age brings experience, which makes up for some of it
    young, old = approved[alike & (frame["age"] < 30)].mean(), approved[alike & (frame["age"] > 55)].mean()
    assert young - old > 0.05


def test_training_is_deterministic_and_leaves_the_random_state_alone():
    import torch

    spec, frame = loan_spec(), loan_applicants(300)
    X, y = spec.encode(frame), spec.labels(frame)
    before = torch.random.get_rng_state()
    first, second = (train_network(X, y, epochs=2, seed=1) for _ in range(2))
    assert first == second
    assert first != train_network(X, y, epochs=2, seed=2)
    assert torch.equal(before, torch.random.get_rng_state())

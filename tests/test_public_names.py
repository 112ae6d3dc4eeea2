"""The public surface: every name with its signature, what it costs to import, and what is said about other names."""

import contextlib
import functools
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fairmend
import fairmend.mlflow
import fairmend.paper.datasets
import fairmend.report
import fairmend.sklearn
import fairmend.workflows

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])

# Every public name with its parameters: those with a default end in "=", keyword-only ones follow "*". Adding an
# optional parameter changes a line here; anything else breaks the code of users.
FUNCTIONS = {
    "fairmend.audit": "net spec X= samples= seed= * per_row= pairs= method= time_limit= jobs= device= cluster= resume= "
    "rows= progress= on_plan= witnesses=",
    "fairmend.certify": "net spec X engine= * time_limit= jobs= device= cluster= resume= seed= progress=",
    "fairmend.check": "certificate model spec= * real= run= require_run= progress=",
    "fairmend.export_vnnlib": "net spec X out * rows= timeout= most_boxes=",
    "fairmend.load_model": "source activation= * outputs= output= takes= spec=",
    "fairmend.load_network": "source activation= * example=",
    "fairmend.quantify": "net spec * seconds= share= seed= jobs= device= cluster= X= samples= counting= progress=",
    "fairmend.repair": "net spec X_repair X_cal y_cal method= seed= * keep= guarantee= prefer= X_unlabelled= "
    "training= head= time_limit= device= keep_form= candidate= keep_candidates= progress=",
    "fairmend.search": "net spec X method= seed= * seeds= local_steps= global_steps= jobs= device= cluster= "
    "resume= progress=",
    "fairmend.verify_deployment": "predict certificate model= * takes= gives= batch_sizes= seed=",
    "fairmend.paper.datasets.load": "name data_dir= download=",
    "fairmend.paper.datasets.train_biased": "dataset seed= * hidden= epochs= progress=",
    "fairmend.report.audit_report": "found network spec data= y= * group= title= seed= command= what_if= what_if_rows=",
    "fairmend.mlflow.log_repair": "result report= * folder= flavor=",
    "fairmend.report.load_report": "path",
    "fairmend.sklearn.to_estimator": "network like",
    "fairmend.report.repair_report": "result spec original X_repair data y= * X_test= y_test= held_out= group= "
    "title= seed= command= check= what_if= what_if_rows=",
    "fairmend.workflows.audit_files": "model spec data= * inputs= workers= group= samples= method= time_limit= resume= "
    "seed= pairs= out= report= what_if_rows= command= progress= on_plan=",
    "fairmend.workflows.certify_files": "model spec data * inputs= workers= engine= rows= time_limit= resume= seed= "
    "certificate= command= progress=",
    "fairmend.workflows.check_spec_file": "spec data= model= * out_of_range= threshold= scores= encoded= activation= "
    "outputs= trust_pickle=",
    "fairmend.workflows.draft_pipeline_spec": "pipeline protected out= * data= data_out= scores= trust_pickle= label= "
    "positive= delta= on= model= activation= outputs= force= warn=",
    "fairmend.workflows.draft_spec_file": "data protected out= * label= positive= delta= on= drop= categorical= "
    "integer= order= scale= scaler= scores= score_column= encoded= model= activation= outputs= data_out= "
    "trust_pickle= force= progress= warn=",
    "fairmend.workflows.export_files": "model spec data out * inputs= rows= timeout= most_boxes= seed=",
    "fairmend.workflows.quantify_files": "model spec data= * inputs= workers= seconds= share= boxes= samples= seed= "
    "report= certificate= command= progress= on_result= on_outlook=",
    "fairmend.workflows.repair_files": "model spec data out * inputs= method= options= repair_data= test_data= "
    "repair_rows= calibration_rows= group= seed= what_if_rows= command= progress= warn=",
    "fairmend.workflows.search_files": "model spec data * inputs= workers= method= seeds= local_steps= resume= seed= "
    "out= command= progress=",
}
CONSTRUCTORS = {
    "fairmend.Feature": "name kind range= categories= encoding= scale= protected= tolerance= dropped= missing= "
    "indicates= input= names= bands= columns=",
    "fairmend.Claim": "kind= delta= on=",
    "fairmend.HeadOptions": "features= margin= delta_limit= solver= search= gap= cover_inference=",
    "fairmend.Label": "column positive= threshold= score= classes= favourable= score_range=",
    "fairmend.Link": "when then",
    "fairmend.Network": "affines activations closing= names= threshold= form=",
    "fairmend.Spec": "features label= claim= links= id_column= about= guessed_ranges=",
    "fairmend.TrainingOptions": "steps= learning_rate= fairness_weight= label_weight= reference= bounds= batch_size= "
    "patience= pairs=",
    "fairmend.workflows.InputOptions": "threshold= activation= outputs= ignore_scores= trust_pickle= out_of_range= "
    "keep_going= about=",
    "fairmend.workflows.WorkerOptions": "jobs= device= cluster=",
    "fairmend.sklearn.FairRepairClassifier": "estimator= * spec= protected= threshold= method= keep= guarantee= "
    "prefer= repair_rows= calibration_rows= repair_options= random_state=",
}
# Classes that users read and do not construct, with the attributes that are documented.
ATTRIBUTES = {
    "fairmend.AuditResult": "idi_rate count pairs total exact unknown method plan sampled interval evaluations "
    "disparity seconds as_dict",
    "fairmend.CertifyResult": "verdicts unfair_rate witnesses reasons engine seconds counts as_dict",
    "fairmend.CheckResult": "valid reasons claim regions covers_inference least_margin seconds condition "
    "largest_difference readable verdict runs not_run as_dict",
    "fairmend.DeploymentResult": "matches people differing decisions largest_excess rows condition as_dict",
    "fairmend.QuantifyResult": "fair unfair undecided boxes rows sampled samples leaves seconds as_dict",
    "fairmend.RepairResult": "network certificate objective history warnings method proven regions candidates seconds",
    "fairmend.SearchResult": "idis count others method seeds starts calls exact seconds as_dict",
    "fairmend.Network": "logits predict probabilities save to_module inputs outputs depth dtype threshold at_threshold",
    "fairmend.RunModel": "bind logits predict probabilities inputs outputs dtype kind ports runtime threshold "
    "why_only_run",
    "fairmend.Spec": "load save from_data from_sklearn from_dict to_dict encode decode labels features label claim "
    "links protected threshold at_threshold about with_about",
    "fairmend.Verdict": "FAIR UNFAIR UNKNOWN",
    "fairmend.paper.datasets.Dataset": "X_train y_train X_test y_test columns bounds ranges spec",
    "fairmend.report.Report": "document html markdown by_group plot save save_card save_data with_about "
    "without_what_if",
    "fairmend.sklearn.FairRepairClassifier": "fit predict predict_proba score get_params set_params",
    "fairmend.workflows.CheckedSpec": "check out_of_range spec_file data document",
    "fairmend.workflows.DraftedSpec": "draft file inputs match warnings next_steps fits document",
    "fairmend.workflows.ExportedFiles": "result document files out_of_range",
    "fairmend.workflows.FilesResult": "result document files warnings spec network report",
    "fairmend.workflows.RepairedFiles": "comparison check document folder contents model replaced removed result "
    "files warnings",
}
OTHERS = {
    "fairmend.FairmendError",
    "fairmend.__version__",
    "fairmend.paper.datasets.NAMES",
    "fairmend.sklearn.InputError",
    "fairmend.sklearn.RepairWarning",
}
DEFAULTS = {
    "fairmend.audit": {"X": None, "samples": 100_000, "seed": 0},
    "fairmend.certify": {"engine": "auto"},
    "fairmend.repair": {"method": "auto", "seed": 0},
    "fairmend.search": {"method": "adf", "seed": 0, "seeds": 1000, "local_steps": 1000},
    "fairmend.load_network": {"activation": None},
    "fairmend.Feature": {"protected": False, "tolerance": 0.0, "encoding": "ordinal"},
}
ALIASES = {
    "AuditReport": "AuditResult",
    "CertifyReport": "CertifyResult",
    "CheckReport": "CheckResult",
    "QuantifyReport": "QuantifyResult",
    "SearchReport": "SearchResult",
}


def resolve(name):
    """Return the object of a dotted name: attributes of the shortest prefix that is a module and has them."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        with contextlib.suppress(AttributeError, ModuleNotFoundError):
            return functools.reduce(getattr, parts[length:], importlib.import_module(".".join(parts[:length])))
    raise AttributeError(f"there is no {name}")


def parameters(function):
    """Return the parameters of a function in the notation of FUNCTIONS."""
    shown, keywords = [], False
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD), parameter
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            shown.append("*")
        shown.append(parameter.name + ("" if parameter.default is parameter.empty else "="))
    return " ".join(shown)


def mentioned(page):
    """Return the dotted names of fairmend on a page, and the names that its code imports."""
    text = page.read_text()
    names = set(re.findall(r"(?<![\w./-])fairmend(?:_check)?(?:\.\w+)+(?![\w/-])", text)) - {"fairmend.toml"}
    for module, imported in re.findall(r"from (fairmend[\w.]*) import \(?([\w, ]+)", text):
        names |= {f"{module}.{name.strip()}" for name in imported.split(",") if name.strip()}
    return names


def run_python(code):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", sorted(FUNCTIONS | CONSTRUCTORS))
def test_a_signature_is_kept(name):
    assert parameters(resolve(name)) == (FUNCTIONS | CONSTRUCTORS)[name]


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_documented_defaults_are_kept(name):
    found = inspect.signature(resolve(name)).parameters
    assert {key: found[key].default for key in DEFAULTS[name]} == DEFAULTS[name]


@pytest.mark.parametrize("name", sorted(ATTRIBUTES))
def test_documented_attributes_are_kept(name):
    found = resolve(name)
    fields = set(getattr(found, "__dataclass_fields__", ())) | set(getattr(found, "__annotations__", ()))
    assert [part for part in ATTRIBUTES[name].split() if part not in fields and not hasattr(found, part)] == []


MODULES = [
    "fairmend",
    "fairmend.paper.datasets",
    "fairmend.mlflow",
    "fairmend.report",
    "fairmend.sklearn",
    "fairmend.workflows",
]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_listed_here_and_exists(module):
    listed = {*FUNCTIONS, *CONSTRUCTORS, *ATTRIBUTES, *OTHERS}
    exported = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
    assert exported == {name for name in listed if name.rpartition(".")[0] == module}
    for name in exported:
        assert resolve(name) is not None


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_a_result_has_a_second_name(alias, name):
    """Warnings are errors in the tests: the second name gives none."""
    assert getattr(fairmend, alias) is getattr(fairmend, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_name_on_a_page_exists(page):
    for name in sorted(mentioned(page)):
        assert resolve(name) is not None


def test_the_pages_mention_names_at_all():
    assert len({name for page in PAGES for name in mentioned(page)}) > 20


def test_a_lost_name_is_found_on_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Call `fairmend.mend(net)`.\n\n```python\nfrom fairmend.report import draw, load_report\n```\n")
    assert mentioned(page) >= {"fairmend.mend", "fairmend.report.draw", "fairmend.report.load_report"}
    for name in ("fairmend.mend", "fairmend.report.draw"):
        with pytest.raises(AttributeError):
            resolve(name)


def test_dir_is_the_public_surface():
    assert dir(fairmend) == sorted(fairmend.__all__)


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="no attribute 'mend'"):
        _ = fairmend.mend
    with pytest.raises(ImportError, match="mend"):
        exec("from fairmend import mend")


def test_version_looks_like_one():
    assert [part.isdigit() for part in fairmend.__version__.split(".")[:2]] == [True, True]


def test_every_error_is_one_class():
    assert issubclass(fairmend.FairmendError, Exception)
    with pytest.raises(fairmend.FairmendError, match="the spec has no features"):
        fairmend.Spec([])
    with pytest.raises(fairmend.FairmendError, match="no such file"):
        fairmend.load_network("there-is-no-such-file.onnx")


@pytest.mark.parametrize("module", ["torch", "pandas", "onnx", "highspy"])
def test_import_does_not_load(module):
    done = run_python(f"import fairmend, sys; sys.exit({module!r} in sys.modules)")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["html.entities", "difflib", "fairmend.network.folding"])
def test_networks_do_not_load(module):
    done = run_python(f"import fairmend, sys; fairmend.Network; sys.exit({module!r} in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_what_does_not_train_does_not_load_torch():
    names = [name for name in fairmend.__all__ if name not in ("repair", "RepairResult")]
    done = run_python(
        f"import fairmend, sys; [getattr(fairmend, n) for n in {names}]; sys.exit('torch' in sys.modules)"
    )
    assert done.returncode == 0, done.stderr


def test_repair_is_callable_whatever_was_imported_first():
    """Each order starts without a module of fairmend; PyTorch stays, since loading it takes long."""
    orders = [
        "import fairmend.repairing.run",
        "import fairmend; import fairmend.repairing.run",
        "import fairmend; fairmend.repair; from fairmend.repairing.run import repair",
        "import fairmend; fairmend.RepairResult",
    ]
    done = run_python(f"""
import sys
for order in {orders}:
    for name in [name for name in sys.modules if name.partition(".")[0] == "fairmend"]:
        del sys.modules[name]
    exec(order, {{}})
    import fairmend
    assert callable(fairmend.repair), order
""")
    assert done.returncode == 0, done.stderr


def test_repair_takes_a_file_a_module_or_a_network(tmp_path):
    from torch import nn

    spec = fairmend.Spec([fairmend.Feature("a", "integer", range=(0, 1), protected=True)])
    X, y = np.array([[0.0], [1.0]]), [0, 1]
    module = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1))
    network = fairmend.load_network(module)
    network.save(tmp_path / "net.onnx")
    quick = fairmend.TrainingOptions(steps=2)
    results = [
        fairmend.repair(source, spec, X, X, y, "prof", training=quick)
        for source in (network, module, tmp_path / "net.onnx")
    ]
    assert all(isinstance(result, fairmend.RepairResult) for result in results)
    assert len({result.network.affines for result in results}) == 1


def test_an_option_that_does_not_exist_is_refused():
    spec = fairmend.Spec([fairmend.Feature("a", "integer", range=(0, 1), protected=True)])
    affine = fairmend.network.Affine(np.ones((1, 1)), np.zeros(1))
    with pytest.raises(TypeError, match="marginn"):
        fairmend.repair(fairmend.Network([affine], []), spec, [[0.0]], [[0.0]], [0], "prof", marginn=1)

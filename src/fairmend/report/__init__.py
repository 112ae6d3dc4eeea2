"""The report: a repair or an audit on one self-contained HTML page, for people who decide or supervise.

    from fairmend.report import audit_report, repair_report

    audit_report(result, network, spec, data).save("report.html")
    repair_report(result, spec, original, X_repair, data).save("report.html")

`fairmend audit`, `repair`, `quantify` and `demo` write the same page, and beside it result.json, from which `fairmend
report` regenerates the page. docs/reference/json.md documents it.
"""

from fairmend.report.build import audit_report, repair_report
from fairmend.report.report import Report, load_report

__all__ = ["Report", "audit_report", "load_report", "repair_report"]

"""The report: a repair or an audit on one page of HTML that needs nothing else, for people who decide or supervise.

    from fairmend.report import repair_report, audit_report

    repair_report(result, spec, original, X_repair, data).save("report.html")
    audit_report(found, network, spec, data).save("report.html")

`fairmend repair`, `audit` and `demo` write the same page, and beside it report.json, from which `fairmend report`
makes the page anew; docs/report-format.md says what is in it.
"""

from fairmend.report.api import Report, audit_report, load_report, repair_report

__all__ = ["Report", "audit_report", "load_report", "repair_report"]

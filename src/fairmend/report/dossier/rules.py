"""The excerpts of rules that the chapters of a dossier go by, and where each was read.

Only what is quoted here was read. To change a chapter, read the text in force first, and quote what you read.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Excerpt:
    """A few words of a rule, what they are part of, and where they were read."""

    text: str
    citation: str
    read_at: str


CREDIT = (
    Excerpt(
        "A creditor shall not discriminate against an applicant on a prohibited basis regarding any aspect of a credit "
        "transaction.",
        "Regulation B, 12 CFR § 1002.4(a)",
        "www.consumerfinance.gov, regulations, 1002, section 4",
    ),
    Excerpt(
        "[…] a creditor shall not take a prohibited basis into account in any system of evaluating the "
        "creditworthiness of applicants.",
        "Regulation B, section 6(b)(1)",
        "frrsdigital.com, locator 6-5027",
    ),
    Excerpt(
        "[…] without regard to race, color, religion, national origin, sex, marital status, or age (provided the "
        "applicant has the capacity to contract); to the fact that all or part of the applicant's income derives from "
        "a public assistance program […]",
        "Regulation B of the Federal Reserve Board, 12 CFR § 202.1(b); the definition in § 1002.2(z) was not read",
        "lexbuild.dev, eCFR, title 12, part 202",
    ),
    Excerpt(
        "In an empirically derived, demonstrably and statistically sound, credit scoring system, a creditor may use an "
        "applicant's age as a predictive variable, provided that the age of an elderly applicant is not assigned a "
        "negative factor or value.",
        "Regulation B, section 6(b)(2)(ii)",
        "frrsdigital.com, locator 6-5027",
    ),
)

HIRING = (
    Excerpt(
        "[…] a bias audit must, at a minimum: (1) Calculate the selection rate for each category; (2) Calculate the "
        "impact ratio for each category; (3) Ensure that the calculations required in paragraphs (1) and (2) of this "
        "subdivision separately calculate the impact of the AEDT on: i. Sex categories […], ii. Race/Ethnicity "
        "categories […], and iii. intersectional categories of sex, ethnicity, and race […]",
        "Rules of the City of New York, title 6, § 5-301(b), for Local Law 144 of 2021",
        "codelibrary.amlegal.com, NYCrules, 0-0-0-138530",
    ),
    Excerpt(
        "[…] an independent auditor may exclude a category that represents less than 2% of the data being used for the "
        "bias audit from the required calculations for impact ratio.",
        "the same, § 5-301(d)",
        "a copy of the Notice of Adoption of Final Rule in a public data set (LL144-giskard-239)",
    ),
    Excerpt(
        "Where an AEDT scores candidates for employment or employees being considered for promotion, a bias audit "
        "must, at a minimum: (1) Calculate the median score for the full sample of applicants […]",
        "the same, § 5-301(c)",
        "the same copy",
    ),
)

INSURANCE = (
    Excerpt(
        "Member States shall ensure that in all new contracts concluded after 21 December 2007 at the latest, the use "
        "of sex as a factor in the calculation of premiums and benefits for the purposes of insurance and related "
        "financial services shall not result in […]",
        "Council Directive 2004/113/EC, Article 5(1)",
        "a quotation at europeanfoundation.org, of which the end was not read",
    ),
    Excerpt(
        "Artikel 5, stk. 2, i direktiv 2004/113 […] er ugyldig med virkning fra den 21. december 2012.",
        "Court of Justice, C-236/09 (Test-Achats), summary, in Danish: Article 5(2), the derogation, is invalid with "
        "effect from 21 December 2012",
        "eur-lex.europa.eu, CELEX 62009CJ0236",
    ),
)

AI_ACT = (
    Excerpt(
        "the validation and testing procedures used, including information about the validation and testing data used "
        "and their main characteristics; metrics used to measure accuracy, robustness and compliance with other "
        "relevant requirements set out in Chapter III, Section 2, as well as potentially discriminatory impacts; test "
        "logs and all test reports dated and signed by the responsible persons […]",
        "Regulation (EU) 2024/1689, Annex IV, point 2(g)",
        "aiact.annotated.nl, annex IV, 2, g",
    ),
    Excerpt(
        "Detailed information about the monitoring, functioning and control of the AI system, in particular with "
        "regard to: its capabilities and limitations in performance, including the degrees of accuracy for specific "
        "persons or groups of persons on which the system is intended to be used […]",
        "the same, point 3",
        "luxgap.com, AI Act, annex IV",
    ),
)

BASES = {
    "race": ("race", "ethnicity", "ethnic", "races"),
    "color": ("color", "colour", "skin"),
    "religion": ("religion", "religious", "faith"),
    "national origin": (
        *("nationality", "origin", "country", "native", "citizenship", "foreign"),
        *("nationalität", "staatsangehörigkeit", "herkunft", "nationalité", "nacionalidad", "nazionalità"),
        "nationaliteit",
    ),
    "sex": ("sex", "gender", "female", "male", "geschlecht", "sexe", "sexo", "sesso", "geslacht"),
    "marital status": ("marital", "married", "marriage", "familienstand", "zivilstand", "matrimonial"),
    "age": ("age", "birth", "birthday", "birthdate", "alter", "geburtsdatum", "âge", "edad", "età", "leeftijd"),
    "public assistance": ("assistance", "welfare", "benefits"),
}
"""The prohibited bases of Regulation B, and words in the name of a feature that stand for them.

Words are English, and the most common ones of German, French, Spanish, Italian and Dutch.
"""

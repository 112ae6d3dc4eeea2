"""The dossier: what a result shows to an examiner, an auditor, an insurer and under the EU AI Act."""

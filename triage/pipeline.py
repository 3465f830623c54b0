"""The one data flow, top to bottom: open, scan, parse, join, derive, reason, report.

Each step is a function of what the step before gave; nothing here touches a cluster, the network or the clock.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from triage import analysis, content
from triage.analysis._series import series
from triage.bundle.opening import Evidence, open_evidence
from triage.documents import structured, uncollected
from triage.engines import LOCAL, Engine, processes
from triage.graph import cascade, clocks
from triage.graph.build import build, extend
from triage.matching.loading import catalogue
from triage.matching.matcher import match_facts
from triage.model.incident import Incident
from triage.model.pictures import Pictures
from triage.model.report import Report
from triage.reasoning import hypotheses, loading, verdict
from triage.reasoning.questions import View
from triage.reasoning.walking import walks
from triage.recognising import recogniser
from triage.report.contract import assemble
from triage.report.excerpts import cited, excerpts
from triage.report.pictures import draw
from triage.repro.evidence import template


def explain(paths: Sequence[str], engine: Engine = LOCAL) -> Report:
    """Paths to a report. Raises BundleError when a path cannot be opened, ContentError when content is at fault.

    engine: who scans the text files; raises what it raises.
    """
    with _opened(paths) as evidence:
        incident = understand(evidence, engine)
    return reason(incident)


def illustrate(paths: Sequence[str], contexts: bool = True, engine: Engine = LOCAL) -> tuple[Report, Pictures]:
    """Paths to a report and to what its page draws, with the lines around what it cites. Raises as `explain` does."""
    with _opened(paths) as evidence:
        incident = understand(evidence, engine)
        report = reason(incident)
        files = {file.path: file for file in evidence.files}
        wanted = cited(report) if contexts else {}
        around = excerpts(wanted, lambda path: evidence.chunks(files[path]) if path in files else ())
        time = clocks.line_up([item.signal for item in incident.signals], incident.marks, incident.facts)
        reasons = {rule.id: rule.why for rule in cascade.rules()}
        ranks = series(incident)
        phases = {phase for one in ranks for phase in one.phases}
        times = {phase: {one.rank: one.phases[phase] for one in ranks if phase in one.phases} for phase in phases}
        places = {one.rank: one.where for one in ranks}
        return report, draw(incident, report, lambda event: time.at(event)[0], reasons, around, times, places)


def _opened(paths: Sequence[str]) -> Evidence:
    return open_evidence(list(paths), recognise=recogniser(), processes=processes())


def understand(evidence: Evidence, engine: Engine = LOCAL) -> Incident:
    """Evidence to an incident graph, with everything that the analyses derive from it."""
    signatures = catalogue()
    with uncollected():
        matched = engine.scan(evidence)
        facts, gaps = structured(evidence)
        signals = [*matched.signals, *match_facts(facts, signatures)]
        incident = build(
            evidence.files, signals, matched.marks, facts, [*evidence.gaps, *matched.gaps, *gaps], matched.summaries
        )
        derived = list(analysis.derive(incident))
        return extend(incident, match_facts(derived, signatures), derived)


def view(paths: Sequence[str]) -> View:
    """Paths to something that answers a playbook's questions."""
    with _opened(paths) as evidence:
        return View(understand(evidence), catalogue())


def reason(incident: Incident) -> Report:
    """An incident to the report."""
    walked = walks(loading.playbooks(), View(incident, catalogue()))
    ranked = [
        msgspec.structs.replace(each, repro=template(incident, each))
        for each in hypotheses.rank(incident, loading.causes(), walked)
    ]
    return assemble(incident, ranked, verdict.verdict(incident, ranked), content.digest())

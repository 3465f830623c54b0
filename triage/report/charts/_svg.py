"""Small SVG: elements with escaped text. Colours come from classes of the style sheet, so that dark mode works."""

from __future__ import annotations

from html import escape

from triage.report.clean import clean


def element(name: str, *inside: str, **attributes: object) -> str:
    """`<name a="1">inside</name>`; an underscore stands for a dash, a final one is dropped; None is left out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{told}>{''.join(inside)}</{name}>"


def text(x: float, y: float, words: str, class_: str | None = None, anchor: str | None = None, width: int = 60) -> str:
    """One line of text, cut to `width` characters."""
    return element("text", escape(clean(words, width)), x=x, y=y, class_=class_, text_anchor=anchor)


def rect(x: float, y: float, width: float, height: float, class_: str, title: str = "") -> str:
    """A box; `title` is what it says when it is pointed at."""
    inside = element("title", escape(clean(title, 300))) if title else ""
    return element("rect", inside, x=x, y=y, width=max(width, 0.5), height=height, class_=class_)


def picture(
    width: float, height: float, inside: str, label: str, data: dict[str, str] | None = None, **more: object
) -> str:
    """A whole picture that scales to the page; `label` is read out by screen readers, `data` is for the script."""
    more |= {f"data-{name}": value for name, value in (data or {}).items()}
    return element(
        "svg", inside, viewBox=f"0 0 {_value(width)} {_value(height)}", class_="chart", role="img",
        aria_label=clean(label, 300), preserveAspectRatio="xMinYMin meet", **more,
    )  # fmt: skip


def _value(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)

"""Prints the lower bounds of the project's own dependencies as pip constraints (`name==lowest`).

The oldest-dependency run installs with them, so that the bounds in pyproject.toml are the
versions tested. Run it where otel-cassette and `packaging` are installed: the environment that
`make test` makes has both.
"""

from __future__ import annotations

from importlib.metadata import requires

from packaging.requirements import Requirement

DISTRIBUTION = "otel-cassette"


def oldest(requirement: Requirement) -> str:
    """Turns one `name>=lowest` requirement into `name==lowest`."""
    bounds = [spec.version for spec in requirement.specifier if spec.operator == ">="]
    if len(bounds) != 1:
        message = f"{requirement}: expected exactly one '>=' bound; add one in pyproject.toml"
        raise ValueError(message)
    return f"{requirement.name}=={bounds[0]}"


def main() -> None:
    """Prints one constraint a line."""
    for line in requires(DISTRIBUTION) or ():
        requirement = Requirement(line)
        if requirement.marker is None:  # extras come with a marker; they are optional here too
            print(oldest(requirement))


if __name__ == "__main__":
    main()

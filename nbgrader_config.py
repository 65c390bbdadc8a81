"""nbgrader's configuration for this course: folders from `autograder.course`, grading by the course's own classes.

With this file the stock commands (`nbgrader autograde`, `nbgrader export`, the formgrader) give the scores that
`python -m autograder grade` gives: both take them from the same verdicts.
"""

from pathlib import Path

from autograder.course import Course
from autograder.record import nbgrader_settings

c = get_config()  # noqa: F821

for _section, _values in nbgrader_settings(Course(Path(__file__).resolve().parent)).items():
    for _name, _value in _values.items():
        setattr(c[_section], _name, _value)

import pytest
from tests.deploy.promql import MalformedQuery, find_names


def test_names_and_labels_are_found() -> None:
    found = find_names(
        'histogram_quantile(0.99, sum by (api, le) (rate(a_bucket{api!="x", b=~"(y|z)"}[5m]))) > 1 and c'
    )
    assert found.selected == [("a_bucket", {"api", "b"}), ("c", set())]
    assert found.grouped == {"api", "le"}


def test_a_variable_of_the_dashboard_is_no_metric() -> None:
    assert find_names("rate(a[$__rate_interval])").selected == [("a", set())]


@pytest.mark.parametrize(
    "expression",
    ["rate(a[5m]", "a)", "(a]", 'a{b="c}', "a{b}", 'a{b="c" d="e"}', "raet(a[5m])", "a >", "", "1 + 2", "a ? b"],
)
def test_what_is_malformed_is_refused(expression: str) -> None:
    with pytest.raises(MalformedQuery):
        find_names(expression)

from tidelog.model.errors import BrokerError, ErrorCode


def test_a_code_that_is_not_known_here_is_an_error_nobody_knows() -> None:
    error = BrokerError(ErrorCode(30_000))
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert error.message
    assert ErrorCode(42) is ErrorCode.INVALID_REQUEST

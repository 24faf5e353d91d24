"""The command line of `distiller`, in this process."""

from typer.testing import CliRunner

from distiller.cli.app import app


def command(*arguments):
    """Run a command that must succeed; return what it prints."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=True)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output

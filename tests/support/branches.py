"""Where source asks which kind of run it is in; the source is read, not run."""

import ast
import re

KINDS = re.compile(r"topology|strategy|algorithm|has_servers|has_remote_environments|is_shared")


def conditions(source: str) -> list[ast.expr]:
    """All that decides what is done or meant, in whichever way it is written."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            found.append(node.test)
        elif isinstance(node, ast.Match):
            found.append(node.subject)
        elif isinstance(node, ast.comprehension):
            found += node.ifs
        elif isinstance(node, ast.BoolOp):
            found += node.values[:-1]  # the last one decides nothing here
    return found


def words(tree: ast.AST) -> set[str]:
    """The names of variables and attributes, of which an expression is made."""
    nodes = list(ast.walk(tree))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def branches_on_a_kind(source: str) -> list[str]:
    """Where a source asks which kind of run it is in."""
    found = [each for each in conditions(source) if any("replay" in name for name in words(each))]
    named = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and KINDS.fullmatch(node.attr)
    ]
    return [ast.unparse(each) for each in (*found, *named)]

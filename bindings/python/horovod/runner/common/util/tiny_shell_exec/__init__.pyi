# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.
from farandole.runner.common.util.tiny_shell_exec import *

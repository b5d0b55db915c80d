# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.
from farandole.spark.data_loaders import *

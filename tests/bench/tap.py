"""tap - plays the cases of a test of bench/peers, and says what came of them."""


def run(cases):
    """Exit status: 0, all passed."""
    failed = 0
    print("1..%d" % len(cases))
    for i, case in enumerate(cases, 1):
        try:
            case()
            print("ok %d - %s" % (i, case.__name__))
        except AssertionError as error:
            failed += 1
            print("not ok %d - %s # %s" % (i, case.__name__, error))
    return 1 if failed else 0

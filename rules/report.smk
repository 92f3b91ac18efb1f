use rule derived as report with:
    input:
        needs("_report"),
    output:
        makes("_report"),

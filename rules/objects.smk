use rule derived as objects with:
    input:
        needs("_objects"),
    output:
        makes("_objects"),

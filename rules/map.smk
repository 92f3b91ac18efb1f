use rule derived as map with:
    input:
        needs("_map"),
    output:
        makes("_map"),

use rule derived as odom with:
    input:
        needs("_odom"),
    output:
        makes("_odom"),
    threads: 4
    priority: 1  # the map and all poses wait for it

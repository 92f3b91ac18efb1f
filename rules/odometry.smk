use rule derived as odom with:
    input:
        needs("_odom"),
    output:
        makes("_odom"),

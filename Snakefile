from snakemake.utils import min_version

min_version("9.0")


include: "rules/terminal.smk"


configfile: f"{workflow.basedir}/config/config.yaml"


include: "rules/common.smk"
include: "rules/derived.smk"
include: "rules/simulate.smk"
include: "rules/lidar.smk"
include: "rules/radar.smk"
include: "rules/odometry.smk"
include: "rules/poses.smk"
include: "rules/sync.smk"
include: "rules/occupancy.smk"
include: "rules/camera.smk"
include: "rules/imu.smk"
include: "rules/objects.smk"
include: "rules/map.smk"
include: "rules/report.smk"
include: "rules/recordings.smk"
include: "rules/exports.smk"


for path in extra_rules():

    include: path


for declared in workflow.rules:
    declared.priority = declared.priority or PLANS.priority(declared)


localrules:
    all,


rule all:
    default_target: True
    input:
        targets(workflow.rules),
        datasets(begins=BEGINS),


onstart:
    PLANS.begin(workflow.dag.needrun_jobs())


onsuccess:
    end(whole=True)


onerror:
    end(whole=False)

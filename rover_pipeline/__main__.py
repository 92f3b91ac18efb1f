from rover_pipeline.cli import main

raise SystemExit(main())

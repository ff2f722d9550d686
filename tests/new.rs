//! What `orchestrate new` writes is right at once, and takes nobody's place.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;

use insta::assert_snapshot;
use support::schemas::assert_fits;
use support::{PROJECT, Scene, files_below};

/// A place with a target and the schemas.
fn with_target() -> Scene {
    let scene = Scene::isolated();
    assert_eq!(scene.run(&["schema"]).code, Some(0));
    assert_eq!(scene.run(&["new", "target", "mine"]).code, Some(0));
    scene
}

fn read(scene: &Scene, name: &str) -> String {
    fs::read_to_string(scene.path(name)).unwrap()
}

/// What a command says that does not succeed for what it was given.
fn refused(scene: &Scene, arguments: &[&str]) -> String {
    let ended = scene.run(arguments);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}");
    ended.stderr
}

/// The YAML files of a scene.
fn written(scene: &Scene) -> Vec<String> {
    let root = scene.path("");
    let names = files_below(&root).into_iter().map(|path| path.strip_prefix(&root).unwrap().to_owned());
    let mut names: Vec<_> = names.map(|name| name.display().to_string()).collect();
    names.retain(|name| name.contains(".yaml"));
    names.sort();
    names
}

mod targets {
    use super::*;

    #[test]
    fn a_new_target_is_valid_and_says_how_to_go_on() {
        let scene = Scene::isolated();
        let ended = scene.run(&["new", "target", "mine"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        assert_snapshot!(ended.stdout, @"
        written: plans/targets/mine.yaml
        there is no ./schemas: `orchestrate schema .` writes the schemas there, for editors
        next:
          orchestrate validate plans/targets/mine.yaml
          orchestrate new stage STAGE --target mine
        ");
        let checked = scene.run(&["validate", "plans/targets/mine.yaml"]);
        assert_snapshot!(checked.stdout, @"plans/targets/mine.yaml: target mine, 4 nodes; no mistakes");
        let text = read(&scene, "plans/targets/mine.yaml");
        assert_fits(&serde_saphyr::from_str(&text).unwrap(), "target.schema.json", "the new target");
        assert_snapshot!("new_target", text);
    }

    #[test]
    fn a_file_that_is_there_stays() {
        let scene = Scene::isolated();
        scene.write("plans/targets/mine.yaml", "mine\n");
        assert_snapshot!(refused(&scene, &["new", "target", "mine"]), @"error: plans/targets/mine.yaml is there already and stays as it is; take another name, or remove it first");
        assert_eq!(read(&scene, "plans/targets/mine.yaml"), "mine\n");
    }

    #[test]
    fn a_link_to_nowhere_is_not_followed() {
        let scene = Scene::isolated();
        fs::create_dir_all(scene.path("plans/targets")).unwrap();
        std::os::unix::fs::symlink("elsewhere", scene.path("plans/targets/mine.yaml")).unwrap();
        assert!(refused(&scene, &["new", "target", "mine"]).contains("is there already"));
        assert!(!scene.path("plans/targets/elsewhere").exists());
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let scene = Scene::isolated();
        scene.write("plans", "a file");
        let ended = scene.run(&["new", "target", "mine"]);
        assert_eq!(ended.code, Some(3));
        assert!(
            ended.stderr.starts_with("error: plans/targets/mine.yaml cannot be written: "),
            "{}",
            ended.stderr
        );
    }
}

mod stages {
    use super::*;

    #[test]
    fn a_new_stage_is_valid_and_plans() {
        let scene = with_target();
        let ended = scene.run(&["new", "stage", "stage-h"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        assert_snapshot!(ended.stdout, @"
        written: plans/stage-h.yaml, on the target mine
        next:
          orchestrate validate plans/stage-h.yaml
          orchestrate plan plans/stage-h.yaml
        ");
        let checked = scene.run(&["validate", "plans/stage-h.yaml"]);
        assert_snapshot!(checked.stdout, @"plans/stage-h.yaml: plan stage-h, 12 nodes, 1 target, 1 subject; no mistakes");
        let planned = scene.run(&["plan", "plans/stage-h.yaml"]);
        assert_eq!(planned.code, Some(0), "{}", planned.stderr);
        assert!(planned.stdout.contains("not run     target mine needs the site value mine_gguf"));
        let text = read(&scene, "plans/stage-h.yaml");
        assert_fits(&serde_saphyr::from_str(&text).unwrap(), "plan.schema.json", "the new stage");
        assert_snapshot!("new_stage", text);
    }

    #[test]
    fn with_a_site_everything_of_it_would_run() {
        let scene = with_target();
        assert_eq!(scene.run(&["new", "stage", "stage-h"]).code, Some(0));
        let site = "orchestrate: 1\nvalues: {mine_gguf: /models/m.gguf, llama_server: /bin/true}\n";
        scene.write("site.yaml", site);
        let planned = scene.run(&["plan", "plans/stage-h.yaml", "--site", "site.yaml"]);
        assert_eq!((planned.code, planned.stderr.as_str()), (Some(0), ""));
        assert!(!planned.stdout.contains("not run  "), "{}", planned.stdout);
    }

    #[test]
    fn the_first_target_is_taken_and_the_others_are_shown() {
        let scene = with_target();
        for other in ["other", "about"] {
            assert_eq!(scene.run(&["new", "target", other]).code, Some(0));
        }
        scene.write("plans/targets/note.yaml", "no: target\n");
        scene.write("plans/targets/mine/part.yaml", "target: part\n");
        assert_eq!(scene.run(&["new", "stage", "first"]).code, Some(0));
        assert_eq!(scene.run(&["new", "stage", "third", "--target", "other"]).code, Some(0));
        let listed = |stage: &str| {
            let text = read(&scene, stage);
            let lines = text.lines().filter(|line| line.contains("- targets/"));
            lines.collect::<Vec<_>>().join("\n")
        };
        assert_snapshot!(listed("plans/first.yaml"), @"
          - targets/about.yaml
          # - targets/mine.yaml
          # - targets/other.yaml
        ");
        assert_snapshot!(listed("plans/third.yaml"), @"
          # - targets/about.yaml
          # - targets/mine.yaml
          - targets/other.yaml
        ");
        let checked = scene.run(&["validate", "plans/first.yaml", "plans/third.yaml"]);
        assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    }

    #[test]
    fn every_shipped_target_carries_a_new_stage() {
        let scene = Scene::isolated();
        fs::create_dir(scene.path("plans")).unwrap();
        let targets = format!("{PROJECT}/plans/targets");
        std::os::unix::fs::symlink(targets, scene.path("plans/targets")).unwrap();
        for target in ["llama-cpp", "trtmc"] {
            let ended = scene.run(&["new", "stage", &format!("on-{target}"), "--target", target]);
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            let checked = scene.run(&["validate", &format!("plans/on-{target}.yaml")]);
            assert_eq!(checked.code, Some(0), "{}", checked.stderr);
        }
    }

    #[test]
    fn without_a_target_there_is_no_stage() {
        let scene = Scene::isolated();
        assert_snapshot!(refused(&scene, &["new", "stage", "a"]), @"error: plans/targets holds no target for the stage; run `orchestrate new target NAME` first");
        assert_snapshot!(refused(&scene, &["new", "stage", "a", "--dir", "mine"]), @"error: mine/targets holds no target for the stage; run `orchestrate new target NAME --dir mine` first");
        assert!(!scene.path("plans").exists(), "a directory was made");
        let scene = with_target();
        assert_snapshot!(refused(&scene, &["new", "stage", "a", "--target", "yours"]), @"error: plans/targets holds no target `yours`; there are: mine");
        assert_eq!(written(&scene), ["plans/targets/mine.yaml"]);
    }

    #[test]
    fn a_file_that_is_there_stays() {
        let scene = with_target();
        scene.write("plans/a.yaml", "mine\n");
        assert!(refused(&scene, &["new", "stage", "a"]).contains("plans/a.yaml is there already"));
        assert_eq!(read(&scene, "plans/a.yaml"), "mine\n");
    }
}

#[test]
fn another_directory_is_named_in_what_to_run_next() {
    let scene = Scene::isolated();
    let target = scene.run(&["new", "target", "mine", "--dir", "sub/stages"]);
    let stage = scene.run(&["new", "stage", "a", "--dir", "sub/stages"]);
    assert_snapshot!(target.stdout + &stage.stdout, @"
    written: sub/stages/targets/mine.yaml
    there is no sub/schemas: `orchestrate schema sub` writes the schemas there, for editors
    next:
      orchestrate validate sub/stages/targets/mine.yaml
      orchestrate new stage STAGE --target mine --dir sub/stages
    written: sub/stages/a.yaml, on the target mine
    there is no sub/schemas: `orchestrate schema sub` writes the schemas there, for editors
    next:
      orchestrate validate sub/stages/a.yaml
      orchestrate plan sub/stages/a.yaml
    ");
    assert_eq!(written(&scene), ["sub/stages/a.yaml", "sub/stages/targets/mine.yaml"]);
}

#[test]
fn what_cannot_be_a_name_is_refused() {
    let scene = with_target();
    for name in ["", "a/b", "../a", ".a", "a b", "a\nb", "1", "1e3", "no", "Yes", "true", "null", "${a}", "ä"]
    {
        for what in ["target", "stage"] {
            let said = refused(&scene, &["new", what, name]);
            assert!(said.contains("a letter first"), "{what} {name:?}: {said}");
        }
    }
    assert_eq!(written(&scene), ["plans/targets/mine.yaml"]);
    for name in ["qwen-3_8B.q4", "nothing"] {
        assert_eq!(scene.run(&["new", "target", name]).code, Some(0), "{name}");
        let checked = scene.run(&["validate", &format!("plans/targets/{name}.yaml")]);
        assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    }
}

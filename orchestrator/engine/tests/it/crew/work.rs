//! What sentinels are asked during a run, through a crew.

use super::process::{LIMIT, crew_of};
use cvc_engine::crew::{Crew, CrewError, whole};
use cvc_probe::sentinel::NewFile;
use std::{os::unix::fs::PermissionsExt, path::PathBuf};

#[tokio::test(flavor = "multi_thread")]
async fn files_are_made_listed_read_digested_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (remote, _) = crew_of(1).await;
    for (crew, name) in [(remote, "n1"), (Crew::here("here"), "here")] {
        let work = dir.path().join(name).join("run");
        let script = work.join("bin/start.sh");
        std::fs::create_dir_all(work.join("old")).unwrap();
        let new = [NewFile {
            path: script.clone(),
            content: "#!/bin/sh\necho ü\n".into(),
            mode: 0o750,
        }];
        let dirs = [(work.join("bin"), 0o700), (work.join("out"), 0o1777)];
        for _ in 0..2 {
            whole(
                crew.make(&[name], std::slice::from_ref(&work), &dirs, &new, LIMIT)
                    .await,
            )
            .unwrap();
        }
        assert!(!work.join("old").exists());
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(
            (
                mode(script.clone()),
                mode(work.join("bin")),
                mode(work.join("out"))
            ),
            (0o750, 0o700, 0o1777)
        );

        let listed = whole(
            crew.listing(&[name], &work.join("bin"), &[".sh".into()], LIMIT)
                .await,
        )
        .unwrap()
        .remove(0)
        .1;
        assert_eq!(
            (
                listed.exists,
                listed.entries.len(),
                listed.entries[0].name.as_str()
            ),
            (true, 1, "start.sh")
        );
        assert!(
            !whole(crew.listing(&[name], &work.join("none"), &[], LIMIT).await).unwrap()[0]
                .1
                .exists
        );
        let found = whole(
            crew.globs(&[name], &work, &["*/*.sh".into(), "bin/*".into()], LIMIT)
                .await,
        )
        .unwrap()
        .remove(0)
        .1;
        assert_eq!(
            found
                .iter()
                .map(|f| (f.path.clone(), f.bytes))
                .collect::<Vec<_>>(),
            [(script.clone(), 18)]
        );
        let absolute = format!("{}/bin/*.sh", work.display());
        let same = whole(
            crew.globs(&[name], std::path::Path::new("/proc"), &[absolute], LIMIT)
                .await,
        )
        .unwrap()
        .remove(0)
        .1;
        assert_eq!(same, found);
        let digests = whole(
            crew.digest(&[name], &[script.clone(), work.join("none")], LIMIT)
                .await,
        )
        .unwrap()
        .remove(0)
        .1;
        let content = digests[0].found.clone().unwrap();
        assert_eq!(
            (content.bytes, content.blake3),
            (
                18,
                blake3::hash("#!/bin/sh\necho ü\n".as_bytes())
                    .to_hex()
                    .to_string()
            )
        );
        assert_eq!(digests[1].found, None);
        let tail = whole(crew.tail(&[name], &script, 8, LIMIT).await)
            .unwrap()
            .remove(0)
            .1;
        assert_eq!((tail.text.as_str(), tail.file_bytes), ("echo ü\n", 18));
        let error = whole(crew.tail(&[name], &work.join("none"), 8, LIMIT).await).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("{name}: {}/none: No such file", work.display())),
            "{error}"
        );
        whole(
            crew.remove(&[name], std::slice::from_ref(&work), &[], LIMIT)
                .await,
        )
        .unwrap();
        assert!(!work.exists() && work.parent().unwrap().exists());
        let error = whole(
            crew.remove(&[name], &[PathBuf::from("/")], &[], LIMIT)
                .await,
        )
        .unwrap_err();
        assert!(
            matches!(
                &error,
                CrewError::Refused {
                    request: "remove",
                    ..
                }
            ),
            "{error}"
        );
        crew.close().await;
    }
}

/// An answer of many megabytes, as of thousands of images, is heard whole while beats go on.
#[tokio::test(flavor = "multi_thread")]
async fn long_answers_are_heard_whole() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..3000 {
        std::fs::write(dir.path().join(format!("{i:04}-{}", "x".repeat(200))), "").unwrap();
    }
    let (crew, _) = crew_of(1).await;
    let asking = (0..8).map(|_| {
        (
            "n1".to_owned(),
            cvc_probe::sentinel::SentinelRequest::Listing {
                dir: dir.path().to_owned(),
                suffixes: vec![],
            },
        )
    });
    for (_, answer) in crew.ask_each(asking.collect(), LIMIT).await {
        let cvc_probe::sentinel::SentinelAnswer::Listing(listing) = answer.unwrap() else {
            panic!("another answer")
        };
        assert_eq!(listing.entries.len(), 3000);
    }
    let log = dir.path().join("log");
    std::fs::write(&log, "a line of a log\n".repeat(1 << 20)).unwrap();
    let tail = whole(crew.tail(&["n1"], &log, 1 << 30, LIMIT).await)
        .unwrap()
        .remove(0)
        .1;
    assert_eq!((tail.text.len(), tail.file_bytes), (16 << 20, 16 << 20));
    crew.close().await;
}
